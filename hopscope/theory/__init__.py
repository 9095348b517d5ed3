"""Upper limits of what attention can do: information flow, exact minimum depths, schedules that attain them."""

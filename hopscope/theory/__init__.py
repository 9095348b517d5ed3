"""What attention can do at best: information flow, exact minimum depths, schedules that attain them."""

"""What only a checkout needs: training at full size on a machine that is borrowed for minutes, pins, packing."""

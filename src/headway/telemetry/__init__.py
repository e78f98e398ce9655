"""What Headway tells other programs about itself: spans and metrics. Nothing here is imported unless it is on."""

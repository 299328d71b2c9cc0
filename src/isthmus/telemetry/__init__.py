"""What a bridge tells about itself: metrics and health, over HTTP."""

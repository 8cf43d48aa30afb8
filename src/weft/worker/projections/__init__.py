"""Work that follows from events: plan marks, issue trackers, notifications, target branches."""

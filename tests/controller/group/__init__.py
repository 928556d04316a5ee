"""The controller of groups that follow plans: its machine, its service, and both on Kafka."""

"""Members that follow a plan by themselves, with confluent-kafka's assign()."""

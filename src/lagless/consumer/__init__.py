"""The consumer: records from Kafka into the lake, each exactly once."""

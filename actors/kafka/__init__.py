"""The clients of Kafka's brokers, and what the KafkaSink does to its topics."""

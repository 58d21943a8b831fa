"""Messages for Kafka, as Debezium's connector writes them."""

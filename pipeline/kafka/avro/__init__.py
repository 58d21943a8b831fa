"""Debezium's messages in Avro, as Kafka Connect's AvroConverter writes them, in Confluent's wire format."""

"""A consumer-group autoscaler for Kafka: how many consumers a group needs, and which consumer holds which partition."""

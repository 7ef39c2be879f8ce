"""*native*: what Kafka's own assignors will do with another number of consumers, and which number to ask for. Pure."""

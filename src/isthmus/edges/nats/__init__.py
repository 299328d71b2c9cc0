"""The NATS edge: subjects and JetStream streams, as intake and as delivery."""

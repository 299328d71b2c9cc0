"""What the AMQP front door can be told; the models are the configuration's."""

from isthmus.config.amqp import AmqpSettings, AmqpsSettings

__all__ = ["AmqpSettings", "AmqpsSettings"]

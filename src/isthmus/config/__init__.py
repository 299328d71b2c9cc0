"""The configuration of a bridge: one file in Java properties syntax, typed and checked.

::

    file ──► properties ──► environment ──► references ──► build ──► rules ──► Settings
             keys, lines    ISTHMUS_…       ${env:…}       types     together
                                            ${file:…}                          ──► problems

Every step goes on after a mistake and reports it with its line, so that one look shows all of them. Secrets
are hidden from the moment that they are read.
"""

from isthmus.config.judgement.change import needs_restart
from isthmus.config.judgement.check import TopicFacts, TopicProbe, check
from isthmus.config.judgement.dump import dump
from isthmus.config.judgement.outline import outline
from isthmus.config.judgement.reading import Reading, load, read
from isthmus.config.model.settings import (
    JournalSettings,
    KafkaSettings,
    MonitorSettings,
    PipelineSettings,
    RoutingSettings,
    Settings,
)
from isthmus.config.model.values import available_converters
from isthmus.config.syntax.problem import Problem, Severity

__all__ = [
    "JournalSettings",
    "KafkaSettings",
    "MonitorSettings",
    "PipelineSettings",
    "Problem",
    "Reading",
    "RoutingSettings",
    "Settings",
    "Severity",
    "TopicFacts",
    "TopicProbe",
    "available_converters",
    "check",
    "dump",
    "load",
    "needs_restart",
    "outline",
    "read",
]

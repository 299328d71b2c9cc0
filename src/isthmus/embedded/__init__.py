"""Servers that Isthmus runs on its own machine, and the jars that it needs.

- `jars`: fetches the jars that `ivy.xml` names; `java`: finds the Java to run them.
- `kafka`: a real single-node Kafka in a data folder.
- `guarded`, `guard`: a server process that ends with its owner, whatever ends the owner.
- `claim`: one owner at a time for a data folder.
"""

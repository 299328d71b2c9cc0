"""The monitor: a bridge's figures, health and page over HTTP, from inside its process or beside it.

`server` listens and bounds what a client can take, `guard` says who may see and do what, `app` has the paths,
`feed` and `history` keep the figures for those who watch, and `inspector` reads topics when somebody asks.
``static/`` is the page: HTML, CSS and JavaScript as they are served.
"""

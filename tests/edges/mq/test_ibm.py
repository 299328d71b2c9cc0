"""What a user sees who has not installed what IBM MQ needs, and what the adapter tells IBM's client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.mq.backends import StandIn

from isthmus.edges.mq import ibm
from isthmus.edges.mq.ibm import ClientOptions, IbmQueueManager
from isthmus.edges.mq.reasons import REASONS
from isthmus.errors import HardFailure

LOAD = """
from isthmus.edges.mq.ibm import ClientOptions, IbmQueueManager
from isthmus.errors import HardFailure
try:
    IbmQueueManager(ClientOptions(library={library!r})).connect()
except HardFailure as failure:
    print(failure, "|", failure.remedy)
"""


@pytest.mark.parametrize("library", ["", "/no/such/libmqm_r.so"])
def test_without_ibm_s_library_the_failure_says_what_to_install(library: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOAD.format(library=library)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    said, _, remedy = done.stdout.partition("|")
    if not said:
        pytest.skip("IBM's client library is installed on this machine")
    assert "client library does not load" in said
    assert "libmqm_r.so" in said
    assert "mq.library" in remedy


def test_without_the_binding_the_failure_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(ibm.importlib, "import_module", missing)
    with pytest.raises(HardFailure, match="there is no module ibmmq") as raised:
        IbmQueueManager(ClientOptions()).connect()
    assert raised.value.remedy == "pip install 'isthmus[mq]'"


def test_nothing_of_ibm_s_is_loaded_before_it_is_needed(tmp_path: Path) -> None:
    code = "import sys, isthmus.edges.mq.client, isthmus.edges.mq.delivery; sys.exit('ibmmq' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_the_client_is_told_where_and_as_whom_to_connect(stand_in: StandIn) -> None:
    mq = ibm.load()
    options = ClientOptions(
        channel="DEV.APP.SVRCONN",
        address="host(1414)",
        user="app",
        password="hush",
        cipher_spec="ANY_TLS12_OR_HIGHER",
        key_repository="/keys/client",
        certificate_label="bridge",
        peer_name="CN=QM1",
    )
    told = IbmQueueManager(options)._structures(mq)
    assert told["cd"].ChannelName == b"DEV.APP.SVRCONN"
    assert told["cd"].ConnectionName == b"host(1414)"
    assert told["cd"].SSLCipherSpec == b"ANY_TLS12_OR_HIGHER"
    assert told["cd"].SSLPeerNamePtr == "CN=QM1"
    assert told["cd"].MaxMsgLength == 100 * 1024 * 1024
    assert (told["csp"].CSPUserId, told["csp"].CSPPassword) == (b"app", b"hush")
    assert told["sco"].KeyRepository == b"/keys/client"
    assert told["cno"].Options & mq.CMQC.MQCNO_RECONNECT_DISABLED


def test_a_connection_with_every_option_is_well_formed(stand_in: StandIn) -> None:
    options = ClientOptions(
        queue_manager="STANDIN",
        channel="DEV.APP.SVRCONN",
        address="host(1414)",
        user="app",
        password="hush",
        cipher_spec="ANY_TLS12_OR_HIGHER",
        key_repository="/keys/client",
        peer_name="CN=QM1",
        library=stand_in.queue_manager._options.library,
    )
    connection = IbmQueueManager(options).connect()
    assert connection.queue_manager == "STANDIN"
    connection.disconnect()


def test_our_reasons_are_ibm_s(stand_in: StandIn) -> None:
    names = {
        value: name.removeprefix("MQRC_")
        for name, value in vars(ibm.load().CMQC).items()
        if name.startswith("MQRC_")
    }
    renamed = {2192: {"STORAGE_MEDIUM_FULL", "PAGESET_FULL"}}
    for reason, known in REASONS.items():
        assert known.name in renamed.get(reason, {names[reason]})

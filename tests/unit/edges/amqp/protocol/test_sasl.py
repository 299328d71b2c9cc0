from __future__ import annotations

import re

import pytest
from tests.support.amqp.engines import one, performatives

from isthmus.edges.amqp.protocol import (
    Authenticated,
    Closed,
    Connection,
    Event,
    Limits,
    Open,
    Opened,
    PasswordGiven,
    SaslClient,
    SaslServer,
    ScramSecret,
)
from isthmus.edges.amqp.protocol.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, encode_frame
from isthmus.edges.amqp.protocol.performatives import SaslChallenge, SaslInit, SaslOutcome, SaslResponse
from isthmus.edges.amqp.protocol.sasl import (
    ANONYMOUS,
    EXTERNAL,
    PLAIN,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
)

SECRETS = {
    ("alice", mechanism): ScramSecret.of("wonder,=land", mechanism)
    for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)
}


class Users:
    def __init__(self) -> None:
        self.known = dict(SECRETS)

    def secret(self, user: str, mechanism: str) -> ScramSecret | None:
        return self.known.get((user, mechanism))

    decoy_key = b"key"


def login(server: SaslServer, client: SaslClient) -> tuple[list[Event], list[Event]]:
    ours = Connection.server(Limits(), server, answer=Open("server"))
    theirs = Connection.client(Limits(), client)
    at_server: list[Event] = []
    at_client: list[Event] = []
    while up := theirs.data_to_send():
        at_server += ours.receive_data(up, 0.0)
        if at_server and isinstance(at_server[-1], PasswordGiven):
            at_server += ours.password_checked(at_server[-1].check.fits())
        at_client += theirs.receive_data(ours.data_to_send(), 0.0)
    return at_server, at_client


@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM_SHA_256, SCRAM_SHA_512])
def test_a_user_with_the_right_password_gets_in(mechanism: str) -> None:
    at_server, at_client = login(SaslServer([mechanism], Users()), SaslClient("alice", "wonder,=land"))
    assert one(at_server, Authenticated).identity == ("alice", mechanism)
    assert one(at_client, Authenticated).identity == ("alice", mechanism)


@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wrong"), ("bob", "wonder,=land"), ("Alice", "wonder,=land")]
)
def test_anyone_else_does_not(mechanism: str, user: str, password: str) -> None:
    at_server, at_client = login(SaslServer([mechanism], Users()), SaslClient(user, password))
    closed = one(at_server, Closed)
    assert closed.error is not None
    assert closed.error.condition == "amqp:unauthorized-access"
    assert not any(isinstance(event, Authenticated) for event in at_client)


def test_the_strongest_mechanism_that_both_have_is_taken() -> None:
    at_server, _ = login(
        SaslServer([ANONYMOUS, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512], Users()),
        SaslClient("alice", "wonder,=land"),
    )
    assert one(at_server, Authenticated).identity.mechanism == SCRAM_SHA_512


def test_scram_needs_a_user() -> None:
    _, at_client = login(SaslServer([SCRAM_SHA_256], Users()), SaslClient("", ""))
    closed = one(at_client, Closed)
    assert closed.local
    assert closed.error is not None
    assert closed.error.condition == "amqp:not-allowed"


def test_a_certificate_says_who_a_client_is() -> None:
    at_server, _ = login(SaslServer([EXTERNAL], external="CN=app"), SaslClient(external=True))
    assert one(at_server, Authenticated).identity == ("CN=app", EXTERNAL)


def test_external_without_a_certificate_is_refused() -> None:
    at_server, _ = login(SaslServer([EXTERNAL]), SaslClient(external=True))
    assert not any(isinstance(event, Authenticated) for event in at_server)


def test_nobody_gets_in_anonymously_unless_that_is_offered() -> None:
    at_server, at_client = login(SaslServer([PLAIN], Users()), SaslClient())
    assert not any(isinstance(event, Authenticated) for event in at_server)
    assert one(at_client, Closed).local


def attempt(mechanisms: list[str], *frames: object) -> tuple[Connection, list[Event], list[object]]:
    server = Connection.server(Limits(), SaslServer(mechanisms, Users()), answer=Open("server"))
    data = SASL_HEADER + b"".join(encode_frame(0, each, frame_type=SASL_FRAME) for each in frames)  # type: ignore[arg-type]
    events = server.receive_data(data, 0.0)
    return server, events, list(performatives(server.data_to_send()))


def test_a_mechanism_that_was_not_offered_is_refused() -> None:
    _, _, answers = attempt([PLAIN], SaslInit(ANONYMOUS))
    assert answers[-1] == SaslOutcome(1)


def test_a_user_cannot_act_for_another() -> None:
    _, _, answers = attempt([PLAIN], SaslInit(PLAIN, b"root\0alice\0wonder,=land"))
    assert answers[-1] == SaslOutcome(1)


@pytest.mark.parametrize("response", [b"", b"alice", b"\0alice", b"\xff\0\xfe", b"\0alice\0\xff"])
def test_a_malformed_password_is_a_wrong_one(response: bytes) -> None:
    _, _, answers = attempt([PLAIN], SaslInit(PLAIN, response))
    assert answers[-1] == SaslOutcome(1)


@pytest.mark.parametrize(
    "first", [b"", b"n,,", b"n,,n=,r=", b"y,,n=alice,r=abc,x", b"p=tls,,n=a,r=b", b"\xff"]
)
def test_malformed_scram_is_refused(first: bytes) -> None:
    server, _, answers = attempt(
        [SCRAM_SHA_256], SaslInit(SCRAM_SHA_256, first), SaslResponse(b"c=biws,r=x,p=y")
    )
    assert SaslOutcome(0) not in answers
    assert server.finished


def test_frames_out_of_turn_end_the_connection() -> None:
    server, events, _ = attempt([PLAIN], SaslResponse(b"x"))
    assert server.finished
    assert one(events, Closed).error is not None


def test_a_secret_does_not_hold_the_password() -> None:
    secret = ScramSecret.of("hunter2", SCRAM_SHA_256)
    assert b"hunter2" not in b"".join(secret[:3])
    assert secret.fits("hunter2", SCRAM_SHA_256)
    assert not secret.fits("hunter3", SCRAM_SHA_256)


def challenge(directory: Users, user: str, mechanism: str) -> str:
    """What a server answers to a user of SCRAM, without its half of the nonce."""
    server = SaslServer([mechanism], directory)
    [answer] = server.receive(SaslInit(mechanism, f"n,,n={user},r=nonce".encode()))
    assert isinstance(answer, SaslChallenge)
    return re.sub("r=[^,]*,", "", answer.challenge.decode())


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_a_salt_does_not_tell_whether_there_is_such_a_user(mechanism: str) -> None:
    known, unknown = (challenge(Users(), user, mechanism) for user in ("alice", "bob"))
    assert len(known) == len(unknown)
    assert known.rpartition(",i=")[2] == unknown.rpartition(",i=")[2]
    assert unknown == challenge(Users(), "bob", mechanism)  # in another process, or after a restart
    assert unknown != challenge(Users(), "carol", mechanism)


def test_a_password_that_is_too_long_is_wrong_without_being_looked_at() -> None:
    server = SaslServer([PLAIN], Users())
    assert server.receive(SaslInit(PLAIN, b"\0alice\0" + b"x" * 2000)) == [SaslOutcome(1)]
    assert server.check is None


def test_what_a_client_sends_while_its_password_is_checked_waits() -> None:
    server = Connection.server(Limits(), SaslServer([PLAIN], Users()), answer=Open("server"))
    init = encode_frame(0, SaslInit(PLAIN, b"\0alice\0wonder,=land"), frame_type=SASL_FRAME)
    opening = AMQP_HEADER + encode_frame(0, Open("client"))
    [given] = server.receive_data(SASL_HEADER + init + opening[:20], 0.0)
    assert isinstance(given, PasswordGiven)
    assert server.receive_data(opening[20:], 0.0) == []
    events = server.password_checked(given.check.fits())
    assert [type(event) for event in events] == [Authenticated, Opened]


def test_an_empty_frame_of_sasl_ends_the_connection() -> None:
    server = Connection.server(Limits(), SaslServer([PLAIN], Users()), answer=Open("server"))
    events = server.receive_data(SASL_HEADER + bytes.fromhex("00000008 02010000"), 0.0)
    assert one(events, Closed).local
    assert server.finished

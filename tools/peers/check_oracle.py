"""Does the oracle run here? ``python -m tools.peers.check_oracle``

Exit code 0: a real Kafka broker was started and answered; or, with a "skipped" line, this machine lacks Java
or Maven or cannot reach the packages. Exit code 1: it can be had here but did not run. That fails CI: a
comparison that was not made must not look like one that passed.
"""

import sys
import time

from tools.peers import probe
from tools.peers.cache import FetchError
from tools.peers.fetch import available
from tools.peers.kafka_broker import BrokerStartError, kafka_broker
from tools.peers.pins import KAFKA_VERSION, Peer


def main() -> int:
    """Start the oracle once and say how it went."""
    started = time.monotonic()
    try:
        reason = available(Peer.KAFKA)
        if reason is not None:
            print(f"oracle skipped: {reason}")
            return 0
        with kafka_broker() as broker:
            count = probe.ask_api_versions(broker.host, broker.port)
    except (FetchError, BrokerStartError) as error:
        print(f"oracle FAILED although it can be had here: {error}", file=sys.stderr)
        return 1
    seconds = time.monotonic() - started
    print(f"oracle: Kafka {KAFKA_VERSION} answers {count} APIs, up and down in {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

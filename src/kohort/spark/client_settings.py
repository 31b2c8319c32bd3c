"""``kafka.*`` options: settings of the Java consumer as settings of our client."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from kohort.spark.errors import OptionError, unknown_option
from kohort.spark.option_table import (
    ACCEPTED,
    DRIVER,
    EXECUTOR,
    FLAG,
    GROUP_ID,
    INSTANCE_ID,
    INT,
    REFUSED,
    SECRETS_ON,
    SECURITY,
    SETTINGS,
    Setting,
)

SettingValue = Any  # int, bool, str, a tuple, or a secret

_CHOICES = {
    "isolation.level": ("read_uncommitted", "read_committed"),
    "group.protocol": ("classic", "consumer"),
}
_ASSIGNORS = {
    "rangeassignor": "range",
    "roundrobinassignor": "roundrobin",
    "stickyassignor": "sticky",
    "cooperativestickyassignor": "cooperative-sticky",
}


def client_settings(
    kafka: Mapping[str, str], *, refuse_unknown: bool = True, secrets_on: str = DRIVER
) -> dict[str, SettingValue]:
    """Keyword arguments of ``ConsumerSettings`` from options without their ``kafka.``; raises OptionError.

    What has no meaning here is left out; what is refused or not spoken raises, and so does what is unknown,
    unless it may be ignored with a warning.
    """
    settings: dict[str, SettingValue] = security_settings(kafka, secrets_on)
    for name, text in kafka.items():
        if name.startswith(SECURITY):
            continue
        _check(name, text, refuse_unknown)
        if name in SETTINGS:
            settings[SETTINGS[name].ours] = _value(name, SETTINGS[name], text)
    return settings


def security_settings(kafka: Mapping[str, str], secrets_on: str = DRIVER) -> dict[str, Any]:
    """Keyword arguments of our clients from the security settings among the options; raises OptionError.

    Secrets in files and environment variables are read here, on the driver: executors may lack both. With
    ``secrets_on`` "executor" each process reads them when it logs in.
    """
    if secrets_on not in (DRIVER, EXECUTOR):
        raise OptionError(f"{SECRETS_ON} cannot be {secrets_on!r}", hint=f"it is {DRIVER} or {EXECUTOR}")
    given = {name: text for name, text in kafka.items() if name.startswith(SECURITY)}
    if not given:
        return {}
    from kohort.client.security.names import security_arguments  # only secured queries need it
    from kohort.client.security.settings import SecuritySettings
    from kohort.model.errors import KohortError
    from kohort.security.secret import Secret

    try:
        found = security_arguments(given, is_text=True)
        SecuritySettings(**found)
        if secrets_on == DRIVER:
            found = {
                name: value.fixed() if isinstance(value, Secret) else value for name, value in found.items()
            }
    except KohortError as error:
        raise OptionError(f"kafka options of security: {error.args[0]}", hint=error.hint) from None
    if "sasl_oauth_extensions" in found:
        found["sasl_oauth_extensions"] = tuple(found["sasl_oauth_extensions"].items())  # options are hashed
    return found


def _check(name: str, text: str, refuse_unknown: bool) -> None:
    if name in REFUSED:
        raise OptionError(f"kafka.{name} is not supported", hint=REFUSED[name])
    if name not in SETTINGS and name not in ACCEPTED:
        known = [*SETTINGS, *ACCEPTED, GROUP_ID, INSTANCE_ID, "bootstrap.servers"]
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean kafka.{close[0]}?" if close else "see docs/reference/spark-options.md"
        error = OptionError(f"a consumer has no setting {name!r}", hint=hint)
        unknown_option(error, is_refused=refuse_unknown)


def _value(name: str, setting: Setting, text: str) -> SettingValue:
    if setting.kind == INT:
        try:
            return int(text)
        except ValueError:
            raise OptionError(f"kafka.{name} cannot be {text!r}", hint="it is a whole number") from None
    if setting.kind == FLAG:
        if text.lower() not in ("true", "false"):
            raise OptionError(f"kafka.{name} cannot be {text!r}", hint="it is true or false")
        return text.lower() == "true"
    if name in _CHOICES and text not in _CHOICES[name]:
        hint = f"it is one of {', '.join(_CHOICES[name])}"
        raise OptionError(f"kafka.{name} cannot be {text!r}", hint=hint)
    if name == "partition.assignment.strategy":
        return tuple(_assignor(each.strip()) for each in text.split(","))
    return text


def _assignor(name: str) -> str:
    """Ours by its name, or by that of Kafka's class."""
    return _ASSIGNORS.get(name.rpartition(".")[2].lower(), name)

"""The backends' methods: their documentation, corrected, and their changes to the state."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from bfcl_eval.constants.executable_backend_config import MULTI_TURN_FUNC_DOC_FILE_MAPPING

MAX_DESCRIPTION = 200

#: Methods that change nothing; read in their source, for a name can mislead:
#: get_current_speed and get_outside_temperature_from_google draw from the backend's random
#: generator, get_flight_cost fills the table from which book_flight takes its price.
READING: Mapping[str, frozenset[str]] = {
    "GorillaFileSystem": frozenset(
        {"cat", "diff", "du", "find", "grep", "ls", "pwd", "sort", "tail", "wc"}
    ),
    "MathAPI": frozenset(
        {
            "absolute_value",
            "add",
            "divide",
            "imperial_si_conversion",
            "logarithm",
            "max_value",
            "mean",
            "min_value",
            "multiply",
            "percentage",
            "power",
            "round_number",
            "si_unit_conversion",
            "square_root",
            "standard_deviation",
            "subtract",
            "sum_values",
        }
    ),
    "MessageAPI": frozenset(
        {
            "get_message_stats",
            "get_user_id",
            "list_users",
            "message_get_login_status",
            "search_messages",
            "view_messages_sent",
        }
    ),
    "TwitterAPI": frozenset(
        {
            "get_tweet",
            "get_tweet_comments",
            "get_user_stats",
            "get_user_tweets",
            "list_all_following",
            "posting_get_login_status",
            "search_tweets",
        }
    ),
    "TicketAPI": frozenset({"get_ticket", "get_user_tickets", "ticket_get_login_status"}),
    "TradingBot": frozenset(
        {
            "filter_stocks_by_price",
            "get_account_info",
            "get_available_stocks",
            "get_current_time",
            "get_order_details",
            "get_order_history",
            "get_stock_info",
            "get_symbol_by_name",
            "get_transaction_history",
            "get_watchlist",
            "notify_price_change",
            "trading_get_login_status",
        }
    ),
    "TravelAPI": frozenset(
        {
            "compute_exchange_rate",
            "contact_customer_support",
            "get_all_credit_cards",
            "get_booking_history",
            "get_budget_fiscal_year",
            "get_credit_card_balance",
            "get_nearest_airport_by_city",
            "list_all_airports",
            "retrieve_invoice",
            "travel_get_login_status",
            "verify_traveler_information",
        }
    ),
    "VehicleControlAPI": frozenset(
        {
            "check_tire_pressure",
            "displayCarStatus",
            "display_log",
            "estimate_distance",
            "estimate_drive_feasibility_by_mileage",
            "find_nearest_tire_shop",
            "gallon_to_liter",
            "get_outside_temperature_from_weather_com",
            "get_zipcode_based_on_city",
            "liter_to_gallon",
        }
    ),
}
DELETING = frozenset({"delete_message", "rm", "rmdir"})

#: mpmath keeps its precision for the whole process, and this method sets it.
ALONE = frozenset({"logarithm"})

_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


@dataclass(frozen=True, slots=True)
class Method:
    """A public method of a backend.

    Args:
        suite: The backend's class.
        name: The method's own name.
        text: All that its documentation says.
        params: A JSON Schema of its arguments.
    """

    suite: str
    name: str
    text: str
    params: dict[str, Any]

    @property
    def tool_name(self) -> str:
        """The name in snake_case, which fits a tool: `displayCarStatus`, `display_car_status`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()

    @property
    def summary(self) -> str:
        """Its description, in at most 200 characters."""
        _, _, own = self.text.partition("Tool description:")
        return shorten(" ".join((own or self.text).split()))

    @property
    def category(self) -> Literal["read", "write", "delete"]:
        """Its change to the state."""
        if self.name in READING[self.suite]:
            return "read"
        return "delete" if self.name in DELETING else "write"

    @property
    def alone(self) -> bool:
        """True where it must not run twice at the same time."""
        return self.name in ALONE


def methods_of(suite: str) -> Iterator[Method]:
    """Yield a backend's methods, in the order of its documentation."""
    name = MULTI_TURN_FUNC_DOC_FILE_MAPPING[suite]
    page = files("bfcl_eval").joinpath("data", "multi_turn_func_doc", name)
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.strip():
            entry = json.loads(line)
            params = {**corrected(entry["parameters"]), "additionalProperties": False}
            yield Method(suite, entry["name"], entry["description"].strip(), params)


def shorten(text: str) -> str:
    """Return the text, cut after a sentence or else a word where it is too long."""
    if len(text) <= MAX_DESCRIPTION:
        return text
    head = text[:MAX_DESCRIPTION]
    if (end := head.rfind(". ")) > 0:
        return head[: end + 1]
    return f"{head[: MAX_DESCRIPTION - 3].rsplit(' ', 1)[0]}..."


def corrected(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of the documentation as JSON Schema.

    It has Python's names for types, and the text "None" where there is no default.
    """
    whole = {
        key: value for key, value in schema.items() if not (key == "default" and value == "None")
    }
    if (kind := whole.get("type")) in _TYPES:
        whole["type"] = _TYPES[kind]
    if "properties" in whole:
        whole["properties"] = {name: corrected(each) for name, each in whole["properties"].items()}
    if "items" in whole:
        whole["items"] = corrected(whole["items"])
    return whole

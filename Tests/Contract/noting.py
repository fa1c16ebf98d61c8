"""Notes what generated requests are answered with, for the table that coverage.py makes: schemathesis loads it.

A generated poll waits for one second at most, so that every answer can be held to the time an ordinary one takes.
"""

import os

import schemathesis

from service import note


@schemathesis.hook
def before_call(context, case, kwargs):
    if not any(parameter.name == "wait" for parameter in case.operation.query):
        return
    query = case.query or {}
    asked = str(query.get("wait", "25"))
    if asked.isdecimal() and 1 < int(asked) <= 30:
        case.query = {**query, "wait": 1}


@schemathesis.hook
def after_call(context, case, response):
    operation = case.operation
    code = None
    if "problem" in "".join(response.headers.get("content-type", [])):
        code = response.json()["code"]
    is_asked = case.method.upper() == operation.method.upper()
    note(operation.definition.raw["operationId"] if is_asked else "*", response.status_code, code,
         response.headers)

"""Notes what generated requests are answered with, for the table that coverage.py makes: schemathesis loads it."""

import os

import schemathesis

from service import note


@schemathesis.hook
def after_call(context, case, response):
    operation = case.operation
    code = None
    if "problem" in "".join(response.headers.get("content-type", [])):
        code = response.json()["code"]
    is_asked = case.method.upper() == operation.method.upper()
    note(operation.definition.raw["operationId"] if is_asked else "*", response.status_code, code,
         response.headers)

"""The errors of each dialect, as their documentation and the reports of their users have them."""

from __future__ import annotations

from typing import Any

Error = tuple[int, dict[str, Any]]


def _openai(status: int, kind: str, code: Any, message: str) -> Error:
    return status, {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _anthropic(status: int, kind: str, message: str, **details: Any) -> Error:
    error = {"type": kind, "message": message, **({"details": details} if details else {})}
    return status, {"type": "error", "error": error, "request_id": "req_011"}


def _gemini(code: int, status: str, message: str, *details: dict[str, Any]) -> Error:
    return code, {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def _quota(quota_id: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota_id}]}


def _retry(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def _ollama(status: int, message: str) -> Error:
    return status, {"error": message}


REQUESTS = "GenerateRequestsPer{}PerProjectPerModel-FreeTier"
INVALID = "invalid_request_error"
BLOCKED = {"promptTokenCount": 12, "totalTokenCount": 12}

ERRORS: dict[str, dict[str, Error]] = {
    "openai": {
        "auth": _openai(401, INVALID, "invalid_api_key", "Incorrect API key provided: sk-ab***yz."),
        "region": _openai(403, "request_forbidden", "unsupported_country_region_territory", "Not supported there."),
        "model": _openai(404, INVALID, "model_not_found", "The model does not exist."),
        "context_length": _openai(400, INVALID, "context_length_exceeded", "The context length is 8192 tokens."),
        "policy": _openai(400, INVALID, "content_policy_violation", "Your request was rejected by our safety system."),
        "rate": _openai(429, "tokens", "rate_limit_exceeded", "Rate limit reached. Please try again in 6.57s."),
        "quota": _openai(429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
        "server": _openai(500, "server_error", None, "The server had an error."),
        "overloaded": _openai(503, "service_unavailable_error", "server_is_overloaded", "Overloaded."),
        "malformed": _openai(400, INVALID, None, "Unrecognized request argument."),
    },
    "anthropic": {
        "auth": _anthropic(401, "authentication_error", "invalid x-api-key"),
        "region": _anthropic(403, "permission_error", "Your key may not use this resource."),
        "model": _anthropic(404, "not_found_error", "model: claude-none"),
        "context_length": _anthropic(400, INVALID, "prompt is too long: 210000 tokens > 200000 maximum"),
        "policy": _anthropic(400, INVALID, "Output blocked by content filtering policy"),
        "rate": _anthropic(429, "rate_limit_error", "This request would exceed your rate limit."),
        "quota": _anthropic(400, INVALID, "Your credit balance is too low to access the API."),
        "spend_cap": _anthropic(
            429, "rate_limit_error", "You have reached your limit.", error_code="enforced_spend_limit_reached"
        ),
        "server": _anthropic(500, "api_error", "Internal server error"),
        "overloaded": _anthropic(529, "overloaded_error", "Overloaded"),
        "malformed": _anthropic(400, INVALID, "max_tokens: Field required"),
    },
    "gemini": {
        "auth": _gemini(400, "INVALID_ARGUMENT", "API key not valid.", {"reason": "API_KEY_INVALID"}),
        "region": _gemini(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
        "model": _gemini(404, "NOT_FOUND", "models/none is not found."),
        "context_length": _gemini(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum of 8."),
        "policy": (200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": BLOCKED}),
        "rate": _gemini(429, "RESOURCE_EXHAUSTED", "Quota.", _quota(REQUESTS.format("Minute")), _retry("46s")),
        "quota": _gemini(429, "RESOURCE_EXHAUSTED", "Quota.", _quota(REQUESTS.format("Day")), _retry("0.8s")),
        "server": _gemini(500, "INTERNAL", "An internal error has occurred."),
        "overloaded": _gemini(503, "UNAVAILABLE", "The model is overloaded."),
        "malformed": _gemini(400, "INVALID_ARGUMENT", "Invalid JSON payload received."),
    },
    "ollama": {
        "auth": _ollama(401, "unauthorized"),
        "region": _ollama(403, "forbidden"),
        "model": _ollama(404, 'model "none" not found, try pulling it first'),
        "context_length": _ollama(400, "the input length exceeds the context length"),
        "policy": (400, {"error": {"code": "content_filter", "message": "Blocked."}}),  # of a gateway before it
        "rate": _ollama(429, "too many requests"),
        "quota": _ollama(402, "this model requires a subscription"),
        "server": _ollama(500, "llama runner process has terminated"),
        "overloaded": _ollama(503, "server busy, please try again. maximum pending requests exceeded"),
        "malformed": _ollama(400, "missing request body"),
    },
}

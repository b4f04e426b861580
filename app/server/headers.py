"""Security headers of responses."""

from __future__ import annotations

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    )
)
FRAME_ANCESTORS = "; frame-ancestors 'none'"
SECURITY_HEADERS = [
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY + FRAME_ANCESTORS),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
]

# for a page whose path contains the token: any site may show it in a frame
FRAMED_HEADERS = [
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    *(header for header in SECURITY_HEADERS[1:] if header[0] != "X-Frame-Options"),
]

PREFLIGHT_HEADERS = [
    ("Access-Control-Allow-Methods", "GET, POST, OPTIONS"),
    ("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key, *"),
    ("Access-Control-Max-Age", "600"),
    ("Content-Length", "0"),
]

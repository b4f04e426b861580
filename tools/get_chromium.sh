#!/bin/sh
# Chromium for the browser tests: the machine's own, else the distribution's package, else Playwright's build.
# Says which. `KVTHEATER_CHROMIUM` names another executable.
bin=$1
find_chromium() {
    for name in "${KVTHEATER_CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable; do
        [ -n "$name" ] && command -v "$name" && return 0
    done
    "$bin/python" -c 'import os; from playwright.sync_api import sync_playwright
with sync_playwright() as p: path = p.chromium.executable_path
raise SystemExit(not os.path.exists(path)) if not print(path if os.path.exists(path) else "", end="") else 0' 2>/dev/null
}
if found=$(find_chromium) && [ -n "$found" ]; then
    echo "browser tests use $found"
    exit 0
fi
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo -n"
if command -v apt-get >/dev/null 2>&1; then
    echo "installing chromium with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    { $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends chromium fonts-noto-cjk; } >/dev/null 2>&1
fi
if found=$(find_chromium) && [ -n "$found" ]; then
    echo "browser tests use $found, installed from the distribution's package"
    exit 0
fi
echo "installing Playwright's chromium"
"$bin/playwright" install chromium >/dev/null 2>&1
if found=$(find_chromium) && [ -n "$found" ]; then
    echo "browser tests use $found, installed by Playwright"
    exit 0
fi
echo "no Chromium could be installed: install one and put it on the PATH, or set KVTHEATER_CHROMIUM" >&2
exit 1

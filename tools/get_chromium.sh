#!/bin/sh
# Finds or installs Chromium for the browser tests, and prints which. Order: $KVTHEATER_CHROMIUM, chromium-headless-shell
# of the distribution (which needs three quarters of the CPU time), another installed Chromium, the distribution's package,
# Playwright's build. Installs a Chinese font if there is none, because tests measure Chinese pages.
bin=$1
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo -n"
export DEBIAN_FRONTEND=noninteractive
# no package is removed for it; if the installation fails, another browser is used
if [ -z "${KVTHEATER_CHROMIUM:-}" ] && ! command -v chromium-headless-shell >/dev/null &&
    command -v apt-get >/dev/null && apt-cache show chromium-headless-shell >/dev/null 2>&1; then
    $sudo apt-get install -y -qq --no-install-recommends --no-upgrade --no-remove chromium-headless-shell >/dev/null 2>&1
fi
if [ -z "$(fc-list :lang=zh 2>/dev/null)" ] && command -v apt-get >/dev/null; then
    get="$sudo apt-get install -y -qq --no-install-recommends fonts-noto-cjk"
    { $get || { $sudo apt-get update -qq && $get; }; } >/dev/null 2>&1
fi
find_chromium() {
    for name in "${KVTHEATER_CHROMIUM:-}" chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
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
if command -v apt-get >/dev/null 2>&1; then
    echo "installing chromium with apt-get"
    get="$sudo apt-get install -y -qq --no-install-recommends"
    { $sudo apt-get update -qq && { $get chromium-headless-shell || $get chromium; }; } >/dev/null 2>&1
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

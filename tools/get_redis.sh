#!/bin/sh
# Finds or installs Redis for the tests of web workers: an installed one, or the distribution's package. Each test starts
# and stops its own server. Without Redis these tests are skipped.
if command -v redis-server >/dev/null 2>&1; then
    echo "tests of web workers use $(command -v redis-server)"
    exit 0
fi
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo -n"
if command -v apt-get >/dev/null 2>&1; then
    echo "installing redis-server with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    { $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends redis-server; } >/dev/null 2>&1
    # the package enables a service, which is not needed
    $sudo systemctl disable --now redis-server >/dev/null 2>&1
fi
command -v redis-server >/dev/null 2>&1 || echo "no redis-server could be installed: tests of web workers are skipped"
exit 0

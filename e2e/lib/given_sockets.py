"""Programs that are given sockets which listen, as the service manager gives them (LISTEN_FDS)."""

# What systemd does between fork and exec: python -c GIVE <count> <descriptor>… <program> <argument>…
GIVE = """
import os, sys
count = int(sys.argv[1])
for place in range(count):
    os.dup2(int(sys.argv[2 + place]), 100 + place)
for place in range(count):
    os.dup2(100 + place, 3 + place)
    os.close(100 + place)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(count), LISTEN_FDNAMES="https")
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"""

import json

from bridge import Host
from crypto_program import answer

host = Host()
while True:
    line = await host.line()
    if not line:
        break
    host.write(json.dumps(await answer(json.loads(line))))

from bridge import Host
from driver import Driver

await Driver(Host()).run()

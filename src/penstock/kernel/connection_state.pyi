from penstock.net.connection_state import ConnectionState as ConnectionState

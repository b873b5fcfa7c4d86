"""What tests of access share."""

SECRET = "a-secret-of-20-bytes"

LOGIN_REQUIRED = {"anonymous": "deny"}  # for ``Broker(auth=…)``: also of clients on this machine

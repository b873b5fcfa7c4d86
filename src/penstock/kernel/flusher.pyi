from penstock.net.flusher import Flusher as Flusher

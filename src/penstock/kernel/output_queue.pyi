from penstock.net.output_queue import OutputQueue as OutputQueue

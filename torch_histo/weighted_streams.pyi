from torch_histo.streams.weighted import *

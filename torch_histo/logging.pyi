from torch_histo.loggers import *

"""What the help of the command says besides its options."""

DESCRIPTION = """\
Count how often each value occurs in each channel of files, exactly.

Without FILE, a fixed sample of 131072 x 512 bytes is counted with every kernel
that the machine can run. The counts are checked against torch.histc, and the
times are compared with the fastest way to count the same with PyTorch alone.
Then a sample of floats is counted, and checked against numpy.histogram.
"""

EPILOG = """\
what a FILE is, by its content and its suffix:
  image   PNG, JPEG, GIF, TIFF, WebP, and by its suffix all else that Pillow
          decodes. A channel per colour: R, G, B and A; L (grey); C, M, Y, K.
          The colours of a palette are looked up. All frames of an animation
          and all pages of a TIFF are counted together, each as Pillow gives it
          on the way from the first to the last; they must have one mode.
          16-bit greyscale keeps its 16 bits. A note tells where Pillow
          reduces the samples of colours to 8 bits, where only one image of
          several in the file is counted, and where the end of a GIF is missing.
  array   NumPy .npy and .npz of integers, bool or floats, of any size, byte
          order and memory order, and .safetensors (needs the package
          safetensors), of bfloat16, float8 and float4 too. The tensors of
          files of torch.save (.pt, .pth, .bin), in dictionaries and lists that
          may hold each other; a file that holds other objects is refused.
          What model.safetensors.index.json names is read from the files beside
          it. The arrays of .npz and the tensors of a checkpoint are counted one
          by one, under the name FILE:NAME. The channels of integers lie along
          the last dimension. All floats are one channel, or one for each index
          of the first dimension with --per-channel; --dim chooses for both.
  table   CSV: .csv, .tsv, and text whose first lines are a table of numbers;
          and Parquet (needs the package pyarrow). Each column is an array under
          the name FILE:HEADER; --columns chooses some. Missing numbers are NaN.
  bytes   anything else: one channel; --channels N for N interleaved channels
          (byte i belongs to channel i modulo N). Files of
          known formats whose bytes are not their values are refused, by their
          first bytes or their suffix, with a line that says what to do:
          compressed ones, archives, pickles, HDF5, JSON, DICOM, NIfTI, HEIF,
          PDF, sounds, films and others. --channels 1 counts the bytes of any
          file.
  text    with --text only: how many of the letters a-d, e-h, i-l, m-p, q-t,
          u-x and y-z there are. Capitals and all other bytes are ignored.
  --text, --channels and --dim make every FILE text, bytes or an array,
  whatever it is. Files larger than memory are read in pieces (all but images,
  each frame of which is decoded as a whole, tables, and files of torch.save),
  with a progress bar if standard error is a terminal. A FILE whose name begins
  with a dash comes after --.

what a bin is:
  Integers (and bytes, and nearly all images): bin v holds the value v, for v
  from 0 up. --num-bins sets their number. With --bins, --range or --log they
  are counted as floats are, and so negative ones have bins, too.
  Floats (arrays, tensors, and images of floats): bins of equal width between
  the smallest and the largest finite value, or between the numbers of --range.
  A bin holds its first edge and not its last one, but the last bin holds both.
  --bins sets their number. Bytes, and images of integers, have bins between 0
  and 256, or 65536 for 16-bit images. With --log the edges are evenly spaced in
  their logarithms. Values outside are counted as underflow, overflow and NaN.

what is printed, on standard output:
  A table for each file: how many values were counted, how many were ignored
  because they lie outside the bins, and which option changes that. Then, for
  the first 8 channels, a line for each of at most 16 ranges of bins: its
  values, their number, their share of the channel, and a bar. The ranges cover
  the bins from the first to the last that is not empty in every channel.
  Of a file that holds several arrays, and floats among them, each array is a
  line, and so is each of its first 8 channels.
  With --json it is one document with all bins instead:
    {"files": [{"name", "kind", "dtype", "shape", "elements", "ignored",
                "below", "above", "num_bins",
                "bins": names of the bins of text or null, "note",
                "channels": [{"name", "counts": [num_bins integers]}, ...]},
               ...],
     "errors": [{"name", "error"}, ...]}
  Channels with edges also have "edges" (num_bins + 1 numbers), "underflow",
  "overflow" and "nan".
  With --summary and --quantiles there is a row of numbers for each array, and
  one for each channel of images and bytes, and of arrays with --per-channel or
  --dim. Quantiles are those of torch.nanquantile; an array must fit memory for
  them. Mean and standard deviation are of the finite values, exact but for one
  rounding; in JSON, "relative_error" bounds the error of both. An array has
  "elements", "nan", "inf", "zeros", "min", "max", "mean", "std", "quantiles" by
  q, and so has each of its "channels". NaN is null, and infinities are strings.
  With --weights there are "sums" instead of "counts"; "underflow", "overflow"
  and "nan" are sums, too; "weights" is the file, and "weight_dtype" its type.
  "below" and "above" are the integers that have no bin.
  With --joint a table has the counts of ranges of bins of the first, from top
  to bottom, and the second, from left to right. In JSON "axes" are the two,
  with "edges", "underflow", "overflow" and "nan"; "counts" has a list for each
  bin of the first. Both must fit memory. With --weights there are "sums", too.
  The shape of an image is [height, width, channels]. Elements, ignored and the
  counts are numbers of values; of the ignored ones, "below" lie below the first
  bin and "above" beyond the last one (both null for text). Each error is a line
  on standard error too, with or without --json; the other files are counted all
  the same.

exit status:
  0    every file was counted, or every kernel of the run without FILE was right
  1    a kernel counted wrong in the run without FILE
  2    a file could not be counted, the output or the plot could not be written,
       or the command line was wrong
  130  interrupted (Ctrl-C, SIGINT)
  141  the reader of standard output went away
  143  terminated (SIGTERM)

examples (python -m torch_histo is the same command):
  torch_histo
  torch_histo photo.jpg --plot histogram.png
  torch_histo --json activations.npy | python -m json.tool
  torch_histo --dim=0,1 --num-bins 1000 tokens.npy
  torch_histo model.safetensors --per-channel --bins 64 --range -0.5 0.5
  torch_histo gradients.npy --log --range 1e-9 1 --plot gradients.png
  torch_histo model.safetensors --summary --quantiles 0.01,0.5,0.99
  torch_histo people.csv --columns age score --bins 20
  torch_histo people.csv --joint age score --plot people.png
  torch_histo confidence.npy --bins 10 --range 0 1 --weights loss.npy
  torch_histo --text book.txt
  zcat samples.gz | torch_histo --channels 2 -
"""

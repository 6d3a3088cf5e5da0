"""The convolutions that bench/convolutions and bench/builds measure."""
CHANNELS = [1, 2, 3, 8, 16, 24, 32, 48, 64, 96]
KERNELS = [1, 3, 5, 7]
WORK = 2e7  # multiplications of a forward pass; they determine the number of images


def layers():
    """(name, images) of every layer."""
    for into in CHANNELS:
        for out in CHANNELS:
            for kernel in KERNELS:
                for stride in (1, 2):
                    yield layer("conv2d", into, out, kernel, stride, 1)
            yield layer("conv_transpose2d", into, out, 3, 1, 1)
            yield layer("conv_transpose2d", into, out, 3, 2, 1)
            yield layer("conv1d", into, out, 3, 1, 1)
            yield layer("conv1d", into, out, 7, 2, 1)
    for channels in CHANNELS[1:]:
        for kernel in (3, 5, 7):
            for stride in (1, 2):
                yield layer("conv2d", channels, channels, kernel, stride, channels)
        yield layer("conv_transpose2d", channels, channels, 3, 2, channels)


def layer(function, into, out, kernel, stride, groups):
    size = 1024 if function == "conv1d" else 56 if max(into, out) <= 16 else 28
    taps = kernel if function == "conv1d" else kernel ** 2
    pixels = (size if function == "conv1d" else size ** 2) / stride ** (1 if function == "conv1d" else 2)
    work = into * out / groups * taps * pixels
    return f"{function}:{into}-{out}:{kernel}:{stride}:{groups}:{size}", int(min(8, max(1, WORK // work)))

"""torchvision's side of bench/voc_loader: the commands of voc_loader.cpp, with Pillow's images and the default
transforms of torchvision's segmentation reference."""
import random
import sys
import time

import torch
import torchvision
import torchvision.transforms as T
import torchvision.transforms.functional as F
from torch.utils.data import default_collate

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def padded(picture, size, fill):
    width, height = picture.size
    if min(width, height) >= size:
        return picture
    return F.pad(picture, (0, 0, max(0, size - width), max(0, size - height)), fill=fill)


def finished(image, mask):
    image = F.normalize(F.convert_image_dtype(F.pil_to_tensor(image), torch.float), MEAN, STD)
    return image, F.pil_to_tensor(mask).squeeze(0).to(torch.int64)


def train_transform(base, crop):
    def transform(image, mask):
        size = random.randint(base // 2, 2 * base)
        image = F.resize(image, size, antialias=True)
        mask = F.resize(mask, size, interpolation=T.InterpolationMode.NEAREST)
        if random.random() < 0.5:
            image, mask = F.hflip(image), F.hflip(mask)
        image, mask = padded(image, crop, 0), padded(mask, crop, 255)
        where = T.RandomCrop.get_params(image, (crop, crop))
        return finished(F.crop(image, *where), F.crop(mask, *where))
    return transform


def main():
    root, image_set, base, crop, batch = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    torch.set_num_threads(1)
    files = torchvision.datasets.VOCSegmentation(root, "2012", image_set)
    transform = train_transform(base, crop)
    count = len(files) // batch * batch
    for line in sys.stdin:
        command, *words = line.split()
        if command == "dump":
            index, height, width, flip, top, left = map(int, words[:6])
            image, mask = files[index]
            image = F.resize(image, (height, width), antialias=True)
            mask = F.resize(mask, (height, width), interpolation=T.InterpolationMode.NEAREST)
            if flip:
                image, mask = F.hflip(image), F.hflip(mask)
            image, mask = padded(image, crop, 0), padded(mask, crop, 255)
            image, mask = finished(F.crop(image, top, left, crop, crop), F.crop(mask, top, left, crop, crop))
            with open(words[6], "wb") as file:
                file.write(image.permute(1, 2, 0).contiguous().numpy().tobytes() + mask.contiguous().numpy().tobytes())
            print(0, flush=True)
            continue
        kind, epoch = words
        random.seed(int(epoch))
        torch.manual_seed(int(epoch))
        start = time.perf_counter()
        for first in range(0, count, batch):
            if kind == "read":
                for index in range(first, first + batch):
                    image, mask = files[index]
                    image.load()
                    mask.load()
            else:
                default_collate([transform(*files[index]) for index in range(first, first + batch)])
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()

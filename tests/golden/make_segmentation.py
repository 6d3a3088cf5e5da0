#!/usr/bin/env python3
"""Writes segmentation.safetensors next to this script, and the small pictures and masks from which it is computed:
../data/voc_sample (in the layout of PASCAL VOC) and ../data/image_files. The file contains the results of Pillow and
torchvision, with which Tandem's tests compare.

    python3 make_segmentation.py

Needs torch, torchvision, Pillow and numpy. README.md says what the file contains.
"""
import json
import struct
import zlib

import numpy as np
import torch
import torchvision.transforms as T
import torchvision.transforms.functional as F
from PIL import Image

from golden_file import FOLDER, save

DATA = FOLDER.parent / "data"
VOC = DATA / "voc_sample/VOCdevkit/VOC2012"
FILES = DATA / "image_files"
CLASSES = 21


def palette():
    colours = np.zeros((256, 3), np.uint8)
    for label in range(256):
        for bit in range(8):
            colours[label, bit % 3] |= (label >> bit & 1) << 7 - bit // 3
    return colours


def picture(width, height, phase):
    """Returns a picture of gradients, waves and edges in all three colours."""
    y, x = np.mgrid[:height, :width]
    red = 255 * x / (width - 1)
    green = 127 + 127 * np.sin(phase + x / 3) * np.cos(y / 5)
    blue = np.where((x // 7 + y // 9) % 2 == 0, 220, 30 + y)
    return np.stack([red, green, blue], -1).clip(0, 255).astype(np.uint8)


def mask(width, height, label):
    """Returns a disc of one class with a void border on background, and a corner of another class."""
    y, x = np.mgrid[:height, :width]
    distance = np.hypot(x - 0.45 * width, y - 0.55 * height) / min(width, height)
    result = np.zeros((height, width), np.uint8)
    result[: height // 4, : width // 3] = 15
    result[distance < 0.34] = 255
    result[distance < 0.3] = label
    return result


def save_mask(path, values, **options):
    image = Image.fromarray(values, "P")
    image.putpalette(palette()[: 2 ** options.get("bits", 8)].tobytes())
    image.save(path, **options)


def save_interlaced(path, values):
    """Writes an Adam7 PNG, which Pillow can read but not write."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = b"".join(b"\0" + row.tobytes() for x, y, dx, dy in passes for row in values[y::dy, x::dx] if row.size)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 8, 3, 0, 0, 1)),
              (b"PLTE", palette().tobytes()), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks))


def write_pictures():
    for folder in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (VOC / folder).mkdir(parents=True, exist_ok=True)
    FILES.mkdir(exist_ok=True)
    pairs = {"scene_a": (52, 37, 8, {"subsampling": "4:2:0"}), "scene_b": (41, 60, 12, {"subsampling": "4:4:4"}),
             "scene_c": (70, 50, 20, {"subsampling": "4:2:2", "progressive": True})}
    for phase, (name, (width, height, label, options)) in enumerate(pairs.items()):
        Image.fromarray(picture(width, height, phase)).save(VOC / f"JPEGImages/{name}.jpg", quality=90, **options)
        save_mask(VOC / f"SegmentationClass/{name}.png", mask(width, height, label))
    lists = {"train": ["scene_a", "scene_b"], "val": ["scene_c"], "trainval": list(pairs)}
    for name, names in lists.items():
        (VOC / f"ImageSets/Segmentation/{name}.txt").write_text("".join(f"{n}\n" for n in names))

    colours = Image.fromarray(picture(53, 41, 5))
    colours.save(FILES / "picture.png")
    save_mask(FILES / "mask.png", mask(53, 41, 7))
    colours.convert("L").save(FILES / "grey.jpg", quality=92)
    colours.convert("CMYK").save(FILES / "cmyk.jpg", quality=95)
    few = mask(53, 41, 7)
    save_mask(FILES / "bits4.png", np.where(few == 255, 9, few), bits=4)
    save_mask(FILES / "bits1.png", np.where(few == 7, 1, 0).astype(np.uint8), bits=1)
    save_interlaced(FILES / "interlaced.png", few)
    Image.fromarray(few, "L").save(FILES / "grey8.png")


# Name, image, mask, short side, flip, top, left, and crop (0 for none).
def cases():
    own = (FILES / "picture.png", FILES / "mask.png")
    yield "twice", *own, 82, 1, 20, 11, 33
    yield "up", *own, 67, 0, 3, 9, 48
    yield "same", *own, 41, 1, 0, 5, 41
    yield "down", *own, 20, 0, 1, 4, 17
    yield "down_flipped", *own, 20, 1, 2, 8, 17
    yield "tiny", *own, 9, 1, 0, 0, 33
    yield "wide", *own, 30, 1, 0, 2, 35
    yield "whole", *own, 52, 0, 0, 0, 0
    for name, short, crop in (("scene_a", 60, 32), ("scene_b", 30, 32), ("scene_c", 71, 40)):
        yield name, VOC / f"JPEGImages/{name}.jpg", VOC / f"SegmentationClass/{name}.png", short, 1, 0, 0, crop


def padded(image, size, fill):
    width, height = image.size
    return F.pad(image, (0, 0, max(0, size - width), max(0, size - height)), fill=fill)


def make_transforms(tensors, metadata):
    for name, image_path, mask_path, short, flip, top, left, crop in cases():
        image = F.resize(Image.open(image_path).convert("RGB"), short, antialias=True)
        labels = F.resize(Image.open(mask_path), short, interpolation=T.InterpolationMode.NEAREST)
        width, height = image.size
        if flip:
            image, labels = F.hflip(image), F.hflip(labels)
        if crop:
            image, labels = padded(image, crop, 0), padded(labels, crop, 255)
            image, labels = F.crop(image, top, left, crop, crop), F.crop(labels, top, left, crop, crop)
        tensors[f"{name}/image"] = F.pil_to_tensor(image)
        tensors[f"{name}/mask"] = F.pil_to_tensor(labels)[0]
        metadata[name] = json.dumps({"image": str(image_path.relative_to(DATA)),
                                     "mask": str(mask_path.relative_to(DATA)),
                                     "height": height, "width": width, "flip": flip, "top": top, "left": left,
                                     "crop": crop})
    pixels = F.convert_image_dtype(tensors["twice/image"], torch.float)
    tensors["normalized"] = F.normalize(pixels, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def make_geometry(metadata):
    """Records the sizes after resizing the short side, and the place of the centre crop."""
    rows = []
    for height, width in ((375, 500), (500, 375), (333, 500), (281, 500), (500, 334), (300, 300), (7, 100)):
        for short in (1, 64, 129, 333, 520, 1040):
            resized = F.resize(Image.new("L", (width, height)), short).size
            row = {"height": height, "width": width, "short": short, "resized_height": resized[1],
                   "resized_width": resized[0]}
            # The row and the column at which the centre crop begins.
            numbers = torch.arange(resized[0] * resized[1]).view(1, resized[1], resized[0])
            first = F.center_crop(numbers, [short, short])[0, 0, 0].item()
            rows.append({**row, "top": first // resized[0], "left": first % resized[0]})
    metadata["geometry"] = json.dumps(rows)


def make_decoded(tensors):
    for name in ("grey.jpg", "cmyk.jpg"):
        tensors[f"decoded/{name}"] = F.pil_to_tensor(Image.open(FILES / name).convert("RGB"))
    for name in ("mask.png", "bits4.png", "bits1.png", "interlaced.png", "grey8.png"):
        tensors[f"decoded/{name}"] = F.pil_to_tensor(Image.open(FILES / name))[0]
    tensors["palette"] = torch.from_numpy(palette())


def make_metrics(tensors, metadata):
    """Computes the metrics with the formulas of torchvision's segmentation reference."""
    generator = torch.Generator().manual_seed(3)
    target = torch.randint(0, 6, (2, 9, 11), generator=generator)
    prediction = torch.where(torch.rand(target.shape, generator=generator) < 0.6, target,
                             torch.randint(0, 6, target.shape, generator=generator))
    target[:, :2] = 255
    valid = (target >= 0) & (target < 6)
    counts = torch.bincount(6 * target[valid] + prediction[valid], minlength=36).view(6, 6)
    matrix = counts.double()
    iou = matrix.diag() / (matrix.sum(1) + matrix.sum(0) - matrix.diag())
    tensors |= {"metrics/prediction": prediction, "metrics/target": target, "metrics/counts": counts}
    metadata["metrics"] = json.dumps({"pixel_accuracy": (matrix.diag().sum() / matrix.sum()).item(),
                                      "iou": iou.tolist(),
                                      "mean_iou": iou.mean().item()})


def main():
    torch.set_num_threads(1)
    write_pictures()
    tensors, metadata = {}, {}
    make_transforms(tensors, metadata)
    make_geometry(metadata)
    make_decoded(tensors)
    make_metrics(tensors, metadata)
    save("segmentation.safetensors", tensors, metadata)


if __name__ == "__main__":
    main()

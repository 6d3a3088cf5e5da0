"""The networks of apps/examples in PyTorch, and their losses."""
import torch
import torch.nn.functional as F
from torch import nn

STEPS = 20


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential() if stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, 2, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.blocks = nn.Sequential(Block(8, 8), Block(8, 16), Block(16, 32))
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc(self.blocks(torch.relu(self.bn(self.conv(x)))).mean((2, 3)))


WIDTH, HEADS, CONTEXT = 64, 4, 64


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        n, length, _ = x.shape
        parts = self.qkv(x).reshape(n, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(n, length, WIDTH))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.ln2 = nn.LayerNorm(WIDTH)
        self.grow = nn.Linear(WIDTH, 4 * WIDTH)
        self.shrink = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = x + self.attention(self.ln1(x))
        return y + self.shrink(F.gelu(self.grow(self.ln2(y))))


class CharTransformer(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.token = nn.Embedding(characters, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(Layer(), Layer())
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, characters)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def train(model, optimizer, losses_of):
    losses = []
    for loss in losses_of:
        value = loss()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def make(save, write_json):
    generator = torch.Generator().manual_seed(70)
    torch.manual_seed(0)
    resnet = ResNet()
    images = torch.randint(256, (STEPS, 8, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (STEPS, 8), generator=generator)
    save("example_resnet.safetensors", {**resnet.state_dict(), "images": images, "labels": labels})
    resnet_losses = train(
        resnet, torch.optim.SGD(resnet.parameters(), 0.005, momentum=0.9, weight_decay=5e-4),
        [lambda i=i: F.cross_entropy(resnet(images[i].float() / 255), labels[i]) for i in range(STEPS)])

    characters = 50
    transformer = CharTransformer(characters)
    tokens = torch.randint(characters, (STEPS, 4, CONTEXT + 1), generator=generator)
    save("example_char_transformer.safetensors", {**transformer.state_dict(), "tokens": tokens})
    transformer_losses = train(
        transformer, torch.optim.AdamW(transformer.parameters(), 3e-3),
        [lambda i=i: F.cross_entropy(transformer(tokens[i, :, :-1]).flatten(0, 1), tokens[i, :, 1:].flatten())
         for i in range(STEPS)])
    write_json("examples.json", {"resnet": resnet_losses, "char_transformer": transformer_losses})

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


def double_conv(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                         nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = double_conv(1, 8)
        self.down2 = double_conv(8, 16)
        self.bottom = double_conv(16, 32)
        self.grow2 = nn.ConvTranspose2d(32, 16, 2, 2)
        self.up2 = double_conv(32, 16)
        self.grow1 = nn.ConvTranspose2d(16, 8, 2, 2)
        self.up1 = double_conv(16, 8)
        self.head = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        fine = self.down1(x)
        coarse = self.down2(F.max_pool2d(fine, 2))
        y = self.bottom(F.max_pool2d(coarse, 2))
        y = self.up2(torch.cat([coarse, self.grow2(y)], 1))
        return self.head(self.up1(torch.cat([fine, self.grow1(y)], 1)))


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2),
                         nn.Linear(64, outputs))


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = mlp(8, 2)
        self.discriminator = mlp(2, 1)


class GanTrainer:
    def __init__(self, gan):
        self.gan = gan
        self.generator = torch.optim.Adam(gan.generator.parameters(), 1e-3, (0.5, 0.999))
        self.discriminator = torch.optim.Adam(gan.discriminator.parameters(), 1e-3, (0.5, 0.999))

    def step(self, real, noise):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        loss = F.binary_cross_entropy_with_logits
        fake = self.gan.generator(noise)
        truth = loss(self.gan.discriminator(real), ones) + loss(self.gan.discriminator(fake.detach()), zeros)
        self.discriminator.zero_grad()
        truth.backward()
        self.discriminator.step()
        success = loss(self.gan.discriminator(fake), ones)
        self.generator.zero_grad()
        success.backward()
        self.generator.step()
        return [truth.item(), success.item()]


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

    unet = UNet()
    images = torch.randint(256, (STEPS, 4, 1, 16, 16), dtype=torch.uint8, generator=generator)
    masks = torch.randint(2, (STEPS, 4, 1, 16, 16), dtype=torch.uint8, generator=generator)
    save("example_unet.safetensors", {**unet.state_dict(), "images": images, "masks": masks})
    unet_losses = train(
        unet, torch.optim.SGD(unet.parameters(), 0.05, momentum=0.9),
        [lambda i=i: F.binary_cross_entropy_with_logits(unet(images[i].float() / 255), masks[i].float())
         for i in range(STEPS)])

    gan = Gan()
    real = torch.randn(STEPS, 16, 2, generator=generator)
    noise = torch.randn(STEPS, 16, 8, generator=generator)
    save("example_gan.safetensors", {**gan.state_dict(), "real": real, "noise": noise})
    trainer = GanTrainer(gan)
    gan_losses = [loss for i in range(STEPS) for loss in trainer.step(real[i], noise[i])]
    write_json("examples.json", {"resnet": resnet_losses, "char_transformer": transformer_losses, "unet": unet_losses,
                                 "gan": gan_losses})

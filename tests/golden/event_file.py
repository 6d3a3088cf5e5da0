"""Writes an event file with TensorBoard's own classes."""
from golden_file import FOLDER
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.summary.writer.record_writer import RecordWriter

# An image of one pixel.
PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154"
                    "789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082")


def make():
    text = TensorProto(dtype="DT_STRING", string_val=["**words** \u00fc".encode()],
                       tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]))
    text_plugin = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    histogram = HistogramProto(min=1, max=31, num=4, sum=49, sum_squares=1 + 4 + 225 + 961,
                               bucket_limit=[2.0 + i for i in range(30)],
                               bucket=[1.0 if i in (0, 1, 14, 29) else 0.0 for i in range(30)])
    values = [
        (1, Summary.Value(tag="train/loss", simple_value=0.1)),
        (300, Summary.Value(tag="train/loss", simple_value=0.0)),
        (1 << 40, Summary.Value(tag="a picture", image=Summary.Image(height=1, width=1, colorspace=3,
                                                                     encoded_image_string=PNG))),
        (0, Summary.Value(tag="text", tensor=text, metadata=text_plugin)),
        (-1, Summary.Value(tag="weights", histo=histogram)),
    ]
    with open(FOLDER / "events.tfevents", "wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=1234567890.5, file_version="brain.Event:2").SerializeToString())
        for i, (step, value) in enumerate(values):
            event = Event(wall_time=1234567891.5 + i, step=step, summary=Summary(value=[value]))
            writer.write(event.SerializeToString())
        writer.flush()


if __name__ == "__main__":
    make()

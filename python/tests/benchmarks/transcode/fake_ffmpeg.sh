#!/bin/sh
# Stands in for ffmpeg and ffprobe: answers as they do, encodes nothing. Variables of the environment make it fail.
last=
for argument in "$@"; do last=$argument; done
output=${last#file:}
case "$(basename "$0") $* " in
ffprobe*)
    if grep -q VIDEO "$output"; then
        echo '{"streams": [{"width": 320, "height": 180, "nb_read_packets": "8"}]}'
    else
        echo "$last: Invalid data found when processing input" >&2
        exit 1
    fi ;;
*" -version "*) echo "ffmpeg version 9.9-fake Copyright" ;;
*" -decoders "*) echo "h264 libdav1d" ;;
*" -filters "*) echo "psnr ssim scale trim split" ;;
*" -c:v ${FAKE_LACKS:-nothing} "*" -f rawvideo - "*)
    echo "Unknown encoder '$FAKE_LACKS'" >&2
    exit 1 ;;
*" -f rawvideo - "*) printf 'x264 - core 1 r2 a\nSVT-AV1 Encoder Lib v3.0\n[libaom-av1 @ 0x1] v4.0\n' >&2 ;;
*" -f lavfi "*) echo "a clip" > "$output" ;;
*"]psnr[p]"*) printf 'PSNR y:41.500000 u:1 v:1 average:1\nSSIM Y:0.9 (1) All:0.950000 (1)\n' >&2 ;;
*)
    case " $* " in
    *" ${FAKE_FAILS:-nothing} "*)
        echo "Error while decoding stream" >&2
        exit 1 ;;
    esac
    [ -z "$FAKE_HANGS" ] || exec sleep 60
    [ -z "$FAKE_DIFFERS" ] || date +%N > "$output"
    echo "$*" | sed 's/ .proc.self.fd.[0-9]*//g; s/file:[^ ]*//g' >> "$output"
    frames=$(echo "$*" | sed 's/.*end_frame=\([0-9]*\).*/\1/')
    printf 'frame=1\nprogress=continue\nframe=%s\nprogress=end\n' "$frames" ;;
esac

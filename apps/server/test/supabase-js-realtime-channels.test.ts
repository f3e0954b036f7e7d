// The unmodified client: channels and their socket.
import { channelTests } from './supabase-js/realtime-channels.ts'
import { socketTests } from './supabase-js/realtime-sockets.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('channels', [channelTests, socketTests])

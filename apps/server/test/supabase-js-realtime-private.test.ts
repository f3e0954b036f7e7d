// The unmodified client: private channels, and messages sent by SQL.
import { privateTests } from './supabase-js/realtime-private.ts'
import { sentBySqlTests } from './supabase-js/realtime-sent-by-sql.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('private', [privateTests, sentBySqlTests])

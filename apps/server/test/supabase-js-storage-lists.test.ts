// The unmodified client: list and listV2.
import { listTests, listV2Tests } from './supabase-js/storage-lists.ts'
import { storageSuite } from './supabase-js/storage-suite.ts'

storageSuite('lists', [listTests, listV2Tests])

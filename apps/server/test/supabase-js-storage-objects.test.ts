// The unmodified client: uploading, downloading, moving, copying and removing files.
import { bodyTests } from './supabase-js/storage-bodies.ts'
import { objectTests } from './supabase-js/storage-objects.ts'
import { storageSuite } from './supabase-js/storage-suite.ts'

storageSuite('objects', [bodyTests, objectTests])

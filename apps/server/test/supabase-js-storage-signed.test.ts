// The unmodified client: signed URLs to download from and to upload to, and public ones.
import { publicTests } from './supabase-js/storage-public.ts'
import { signedTests } from './supabase-js/storage-signed.ts'
import { signedUploadTests } from './supabase-js/storage-signed-uploads.ts'
import { storageSuite } from './supabase-js/storage-suite.ts'

storageSuite('signed', [signedTests, signedUploadTests, publicTests])

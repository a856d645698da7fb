-- A CRC-32 of each line of the log and of each large value, by which bytes that a disk changed are found. Lines that were
-- written before have none.
ALTER TABLE events ADD COLUMN crc INTEGER;
ALTER TABLE kept ADD COLUMN crc INTEGER;
